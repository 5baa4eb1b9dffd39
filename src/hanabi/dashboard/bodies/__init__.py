"""Bodies of messages as text: forms, schemas that people gave, and the choice for each topic."""
