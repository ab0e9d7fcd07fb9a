"""What a blessed model must show before it is pushed."""
