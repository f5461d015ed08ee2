"""What each table and figure is made of."""
