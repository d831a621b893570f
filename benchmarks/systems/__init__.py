"""One module per system: the work of the cases in each form the system offers."""
