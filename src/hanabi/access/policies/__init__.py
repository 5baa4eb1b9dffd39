"""Users and policies of ACL 2.0."""
