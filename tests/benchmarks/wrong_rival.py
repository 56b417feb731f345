"""A contender that computes something else."""

from benchmarks.contender import Answer, measure

if __name__ == "__main__":
    measure(len, lambda files: Answer.of([files]))
