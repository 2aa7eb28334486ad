"""`speedproof campaign`: many changes, one after the other, of which few false ones are kept."""
