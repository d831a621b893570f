"""The command line: one module per subcommand; `main` joins them."""
