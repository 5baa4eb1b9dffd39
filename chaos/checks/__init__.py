"""What must hold of a history, one idea a file. Pure: events in, sentences out; no sentence is good."""
