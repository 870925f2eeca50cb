extends RefCounted
## From the columns of a network's last layer to an agent's actions. The columns are the means of all continuous
## components, the logits (or values) of all discrete actions' choices, and the log deviations where they depend
## on the observations.

const Vectors := preload("vectors.gd")
const Weights := preload("weights.gd")

const BLOCKED_LOGIT := -1e8
const LOG_SIGMA_MIN := -20.0
const LOG_SIGMA_MAX := 2.0

var _actions: Array
var _squashed: bool
var _greedy: bool
var _log_sigma: PackedFloat32Array
var _sigma_start := -1
var _sigma_clamped := false
var _continuous := 0
var _discrete := 0


func _init(weights: Weights, actions: Array, settings: Dictionary) -> void:
	_actions = actions
	_squashed = settings["squashed"]
	_greedy = settings["greedy"]
	var choices := 0
	for action: Dictionary in actions:
		if action["action_type"] == "continuous":
			_continuous += action["size"]
		else:
			_discrete += 1
			choices += action["size"]
	if settings["sigma"] == "constant":
		_log_sigma = weights.take(_continuous)
	elif settings["sigma"] != "none":
		_sigma_start = _continuous + choices
		_sigma_clamped = settings["sigma"] == "of_state"


## Action name -> PackedFloat32Array of components in -1 to 1, or the int of a choice.
func decide(columns: PackedFloat32Array, mask: Array, deterministic: bool) -> Dictionary:
	var decided := {}
	var component := 0
	var start := _continuous
	var branch := 0
	for action: Dictionary in _actions:
		var size: int = action["size"]
		if action["action_type"] == "continuous":
			decided[action["name"]] = _components(columns, component, size, deterministic)
			component += size
		else:
			var forbidden: Variant = mask[branch] if mask else null
			decided[action["name"]] = _choice(columns.slice(start, start + size), forbidden, deterministic)
			start += size
			branch += 1
	return decided


## What does not fit in a mask; empty if it does.
func mask_problem(mask: Array) -> String:
	if mask.is_empty():
		return ""
	if mask.size() != _discrete:
		return "the mask has %d entries, and there are %d discrete actions" % [mask.size(), _discrete]
	var branch := 0
	for action: Dictionary in _actions:
		if action["action_type"] == "discrete":
			if mask[branch].size() != action["size"]:
				return (
					"the mask of '%s' has %d entries, and the action %d choices"
					% [action["name"], mask[branch].size(), action["size"]]
				)
			branch += 1
	return ""


func _components(
	columns: PackedFloat32Array, start: int, size: int, deterministic: bool
) -> PackedFloat32Array:
	var values := columns.slice(start, start + size)
	for k in size:
		var value := values[k]
		if not deterministic and not _greedy:
			value += exp(_log_deviation(columns, start + k)) * randfn(0.0, 1.0)
		if _squashed:
			values[k] = tanh(value)
		else:
			values[k] = clampf(value, -Vectors.ENGINE_RANGE, Vectors.ENGINE_RANGE) / Vectors.ENGINE_RANGE
	return values


func _log_deviation(columns: PackedFloat32Array, component: int) -> float:
	if _sigma_start < 0:
		return _log_sigma[component]
	var log_sigma := columns[_sigma_start + component]
	return clampf(log_sigma, LOG_SIGMA_MIN, LOG_SIGMA_MAX) if _sigma_clamped else log_sigma


## The first of the greatest logits, or one sampled in proportion to exp(logit). `forbidden` is an array of the
## same size, or null. If all are forbidden all are equally likely, as in training.
func _choice(logits: PackedFloat32Array, forbidden: Variant, deterministic: bool) -> int:
	if forbidden != null:
		for k in logits.size():
			if forbidden[k]:
				logits[k] = BLOCKED_LOGIT
	var best := 0
	for k in logits.size():
		if logits[k] > logits[best]:
			best = k
	if deterministic or _greedy:
		return best
	var sum := 0.0
	for k in logits.size():
		sum += exp(logits[k] - logits[best])
	var drawn := randf() * sum
	for k in logits.size():
		drawn -= exp(logits[k] - logits[best])
		if drawn < 0.0:
			return k
	return best
