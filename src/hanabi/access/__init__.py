"""Access control: the identity behind a request, and what that identity may do.

    demands     request code -> rights that it needs, for both models
    names       request -> topics and groups that it names
    plain       ACL 1.0: accounts of YAML files
    policies    ACL 2.0: users and policies

Decisions are pure functions. Knows no connection and no broker.
"""
