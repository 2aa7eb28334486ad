"""What is on disk: schemas and their versions, how a results folder is read, data folders that are complete or absent."""
