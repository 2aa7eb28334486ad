"""`speedproof bisect`: the commit that changed the speed."""
