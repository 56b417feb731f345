"""The shipped jobs on stage: started, watched, and held against plain counts."""
