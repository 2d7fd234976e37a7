"""Names that other libraries use for parts and methods of a machine, for error messages that suggest the right call."""

from __future__ import annotations

#: for each name in another library, the call to use here
CALLS = {
    **dict.fromkeys(("fit", "fit_transform", "partial_fit", "learn"), "hm.fit(machine, data)"),
    **dict.fromkeys(("transform", "encode", "prop_up", "propup", "hidden_probabilities"), "machine.hidden_mean(data)"),
    **dict.fromkeys(("decode", "prop_down", "propdown", "inverse_transform"), "machine.visible_mean(hidden)"),
    **dict.fromkeys(("log_likelihood", "score", "ais"), "hm.likelihood.estimate(machine, data)"),
    **dict.fromkeys(("pseudo_likelihood", "pseudo_log_likelihood"), "hm.likelihood.pseudo(machine, data)"),
    **dict.fromkeys(("score_samples", "freeEnergy"), "machine.free_energy(data)"),
    **dict.fromkeys(("generate", "gibbs", "gibbs_sample"), "machine.sample(n)"),
    **dict.fromkeys(("log_z", "logZ", "partition_function"), "machine.log_partition() or hm.likelihood.ais(machine)"),
    **dict.fromkeys(("W", "weights", "components_", "coef_"), "machine.coupling.weight"),
    **dict.fromkeys(("b", "vbias", "v_bias", "visible_bias", "intercept_visible_"), "machine.visible.bias"),
    **dict.fromkeys(("c", "hbias", "h_bias", "hidden_bias", "intercept_hidden_"), "machine.hidden.bias"),
    "units": "machine.layers",
    "links": "machine.couplings",
    "save": "hm.save(machine, path)",
    "interactions": "hm.interactions.n_body(machine, order)",
    "spectrum": "hm.spectra.spectrum(machine)",
}
