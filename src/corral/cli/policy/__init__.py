"""`corral policy …` and `corral init`: policies shown, checked and begun."""
