"""One connection: frames in and out, requests that wait for a reply, turns of the loop."""
