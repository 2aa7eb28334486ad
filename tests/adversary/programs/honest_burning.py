"""Keeps a core busy, and prints the seconds that each epoch took."""

from work import EPOCHS, burn, say

for epoch in range(EPOCHS):
    say(epoch, burn())
