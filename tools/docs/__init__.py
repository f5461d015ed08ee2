"""The site: reference pages made from the code, and links between the repository's documents."""
