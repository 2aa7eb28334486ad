"""Small git repositories for tests."""

import subprocess


def git(folder, *words):
    """Run git as somebody whom no configuration names; return what it prints."""
    own = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
    return subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def make_repository(parent, ignored=""):
    """Return the folder of a new repository, whose branch is `main`."""
    folder = parent / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    if ignored:
        (folder / ".gitignore").write_text(f"{ignored}\n")
    return folder


def commit_all(folder, title):
    """Commit all files, or nothing; return the commit's checksum."""
    git(folder, "add", ".")
    git(folder, "commit", "-qm", title, "--allow-empty")
    return git(folder, "rev-parse", "HEAD")
