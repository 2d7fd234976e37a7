"""Names of training options in other libraries, so that error messages can suggest the right one."""

from __future__ import annotations

#: name in another library -> option of this library
SYNONYMS = {
    **dict.fromkeys(("lr", "rate", "eta", "step_size"), "learning_rate"),
    **dict.fromkeys(("n_epochs", "num_epochs", "n_iter", "max_iter", "max_epochs", "iterations"), "epochs"),
    **dict.fromkeys(("batchsize", "batch", "minibatch_size", "n_batch"), "batch_size"),
    **dict.fromkeys(("k", "cd_k", "n_gibbs", "gibbs_steps", "n_steps", "steps", "sweeps"), "negative"),
    **dict.fromkeys(("weight_decay", "decay", "weight_cost"), "l2"),
    **dict.fromkeys(("n_chains", "num_chains"), "chains"),
    **dict.fromkeys(("n_hidden", "num_hidden", "n_components", "hidden_units"), "hidden"),
    **dict.fromkeys(("random_state", "random_seed", "rng"), "seed"),
    **dict.fromkeys(("optim", "solver"), "optimizer"),
    **dict.fromkeys(("scheduler", "lr_scheduler", "lr_schedule"), "schedule"),
    "verbose": "progress",
    **dict.fromkeys(("val", "validation_data", "val_data", "test_data"), "validation"),
}
