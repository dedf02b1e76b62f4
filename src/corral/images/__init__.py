"""Container images: recipes, how they are built from a distribution's packages, and what is in them."""
