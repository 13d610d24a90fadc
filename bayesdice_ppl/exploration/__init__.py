"""Choose among all policies, and learn online: optimistic exploration by a belief of values."""
