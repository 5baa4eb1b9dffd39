"""History of figures: samples of the cluster in a ring of fixed size on disk, and curves of them."""
