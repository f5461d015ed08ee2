"""SQL-SP: the model, its data on the device, its search, its training and its files."""
