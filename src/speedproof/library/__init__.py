"""What scripts and notebooks get from `import speedproof`, which loads each name when it is first used."""
