"""What lies elsewhere: archives of a registry, downloaded, checked, unpacked once, into folders that are whole or not there."""
