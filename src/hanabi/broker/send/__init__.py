"""Parts of a send: target, flow control, stored form, and the way into the store."""
