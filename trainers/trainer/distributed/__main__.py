"""`python -m lanista.trainers.trainer.distributed`: a further learner, which `LearnerTeam` starts."""

from .worker import main

if __name__ == "__main__":
    main()
