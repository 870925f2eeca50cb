"""`python -m lanista.trainers.parallel`: a further learner, which `LearnerTeam` starts."""

from .repeat import main

if __name__ == "__main__":
    main()
