"""What every package needs: errors, storage, events. It imports nothing of the others."""
