"""Tables from request code to header and body."""
