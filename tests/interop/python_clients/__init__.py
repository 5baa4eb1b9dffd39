"""The scenarios of `java/clients`, played by our own client. Nothing here knows whose broker it is."""
