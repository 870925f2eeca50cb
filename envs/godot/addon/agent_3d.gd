@icon("icon.svg")
class_name LanistaAgent3D
extends Node3D
## An agent of a 3D game: it observes, acts and is rewarded.
##
## Extend this script (node's menu, "Extend Script...") and override [method get_obs],
## [method get_action_space] and [method set_action]. Give rewards with [method add_reward], end episodes with
## [method end_episode], and place the body for the next episode when [signal reset_requested] is emitted.
## A [LanistaSync] in the scene connects the agents with a trainer. Agents may enter and leave the scene tree
## at any time.[br]
## A script that extends AIController3D of godot_rl_agents works here as it is.

## The body must be placed for a new episode. A game that polls [member needs_reset] and calls [method reset] itself,
## as those for godot_rl_agents do, does not connect this signal.
@warning_ignore("unused_signal")  # emitted by the agent's state
signal reset_requested

## Who decides for an agent.
enum ControlModes {
	INHERIT_FROM_SYNC, ## As the [LanistaSync] says
	HUMAN, ## The game itself
	TRAINING, ## A trainer
	INFERENCE, ## A trained brain
	RECORDING, ## A player, who demonstrates: see [method get_action]
}

const _LanistaState := preload("core/agent_state.gd")

## Who decides for this agent.
@export var control_mode := ControlModes.INHERIT_FROM_SYNC
## The behavior that this agent follows: agents with the same name share a policy.
@export var policy_name := "shared_policy"
## The agent's team in self-play.
@export var team_id := 0
## The agents with which this one shares rewards.
@export var group: LanistaGroup
## In inference, the brain on which the agent acts; without one, that of the [LanistaSync].
@export var brain: LanistaBrain
## After so many physics frames an episode ends as truncated. 0: never.
@export var reset_after := 1000

## Whether the episode has ended. Setting it to true ends the episode as [method end_episode] does, without
## asking for a reset. The [LanistaSync] clears it once the trainer has been told.
var done := false:
	set(value):
		done = value
		if value:
			_lanista_state.end(false)
## Whether the body must be placed for a new episode: cleared by [method reset]. Setting it to true without
## [member done] in the same physics frame ends the episode as truncated.
var needs_reset := false:
	set(value):
		needs_reset = value
		if value:
			_lanista_state.end(true)
## What has been earned since the last decision.
var reward := 0.0
## Physics frames since [method reset].
var n_steps := 0
## "human" or "model": whether the game or a policy decides.
var heuristic := "human"

var _player: Node3D
## The episodes of this agent, for [LanistaSync]. Scripts of games have names such as `state` for themselves.
var _lanista_state := _LanistaState.new(self)


## Name the body that this agent controls.
func init(player: Node3D) -> void:
	_player = player


## Reward the agent for what it has done since the last decision.
func add_reward(amount: float) -> void:
	reward += amount


## End the episode and ask for a reset: the terminal step carries what the agent observes now.
## [param truncated] says that it was cut short, by a time limit for example, so that what might have followed is
## still worth something.
func end_episode(truncated := false) -> void:
	if not truncated:
		done = true
	needs_reset = true


## To be overridden: what the agent observes. Name to a list of numbers or, if the name contains "2d" and
## [method get_obs_space] says [channels, height, width], to a picture: an [Image], bytes, or bytes in hex.
## As it stands: what the sensors below this node observe, by their names.
func get_obs() -> Dictionary:
	return _lanista_state.sensor_observations()


## To be overridden where an observation is neither a sensor's nor a plain list of numbers:
## name to [code]{"size": [shape], "space": "box"}[/code] or [code]{"size": choices, "space": "discrete"}[/code].
func get_obs_space():
	return _lanista_state.default_spaces()


## To be overridden: name to [code]{"size": n, "action_type": "continuous"}[/code], n numbers in [-1, 1], or to
## [code]{"size": n, "action_type": "discrete"}[/code], one of n choices.
func get_action_space() -> Dictionary:
	_lanista_state.lacks("get_action_space")
	return {}


## To be overridden: apply an action, name to a list of numbers or to a choice. It holds until the next one.
func set_action(_action) -> void:
	_lanista_state.lacks("set_action")


## To be overridden to record demonstrations: the action that the player at the controls wants now, as
## [method set_action] takes it, which gets it next.
func get_action():
	_lanista_state.lacks("get_action")
	return {}


## May be overridden: name of a discrete action to the choices that are impossible now, [code]{"move": [0, 3]}[/code].
func get_disabled_actions() -> Dictionary:
	return {}


## May be overridden: facts for trainers of godot_rl_agents, such as "is_success".
func get_info() -> Dictionary:
	return {}


## May be overridden: what has been earned since the last decision. Called once a decision.
func get_reward() -> float:
	return reward


## Called when the body has been placed for a new episode: by the game if it polls [member needs_reset].
func reset():
	n_steps = 0
	_lanista_state.placed()
	needs_reset = false


func reset_if_done():
	if done:
		reset()


func get_done():
	return done


func set_done_false():
	done = false


func zero_reward():
	reward = 0.0


func set_heuristic(h):
	heuristic = h


func _physics_process(_delta):
	n_steps += 1


func _notification(what: int) -> void:
	_lanista_state.notify(what)
