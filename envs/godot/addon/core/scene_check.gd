extends RefCounted
## What a scene lacks before a trainer or a brain can play it, seen in the editor, where scripts do not run.

const SYNC := &"LanistaSync"
const AGENTS: Array[StringName] = [&"LanistaAgent2D", &"LanistaAgent3D"]
## The values of LanistaSync.ControlModes.INFERENCE and of the agents' modes.
const SYNC_INFERENCE := 2
const INHERITS := 0
const INFERENCE := 3


## Sentences about a scene with this root; none if all is well, or if it has nothing of the addon.
static func warnings_of(root: Node) -> PackedStringArray:
	var warnings := PackedStringArray()
	var nodes := [root] + root.find_children("*", "", true, false)
	var syncs := nodes.filter(func(node: Node) -> bool: return _extends(node, [SYNC]))
	var agents := nodes.filter(func(node: Node) -> bool: return _extends(node, AGENTS))
	if syncs.is_empty() and not agents.is_empty() and _is_main(root):  # others may be parts of a scene that has one
		warnings.append("The scene has agents, and no LanistaSync, which connects them with a trainer: add one, anywhere.")
	if syncs.size() > 1:
		warnings.append("The scene has %d LanistaSync nodes. One is enough; the others do nothing." % syncs.size())
	if not syncs.is_empty() and agents.is_empty():
		warnings.append("The scene has no LanistaAgent2D or LanistaAgent3D. Add one below each body that learns, unless a script does.")
	var first := {}
	var count := {}
	for agent: Node in agents:
		for found in _faults(agent, syncs):
			first.get_or_add(found, root.get_path_to(agent))
			count[found] = count.get(found, 0) + 1
	for found: String in first:
		var others := "" if count[found] == 1 else " (and %d more)" % (count[found] - 1)
		warnings.append("%s%s %s" % [first[found], others, found])
	return warnings


static func _is_main(root: Node) -> bool:
	var main: String = ProjectSettings.get_setting("application/run/main_scene", "")
	if main.begins_with("uid://") and ResourceUID.has_id(ResourceUID.text_to_id(main)):
		main = ResourceUID.get_id_path(ResourceUID.text_to_id(main))
	return root.scene_file_path == main


static func _faults(agent: Node, syncs: Array) -> PackedStringArray:
	var found := PackedStringArray()
	if not _overrides(agent, "get_action_space"):
		found.append("lacks a get_action_space() of its own: extend its script (node's menu, \"Extend Script...\").")
	var policy := str(agent.get("policy_name"))
	if policy.strip_edges().is_empty() or "?" in policy:
		found.append("has the policy_name \"%s\". Expected: the name of a behavior; teams are told by team_id." % policy)
	var mode: Variant = agent.get("control_mode")
	var brains := syncs.map(func(sync: Node) -> Variant: return sync.get("brain")) + [agent.get("brain")]
	var inherits: bool = mode == INHERITS and syncs.any(func(sync: Node) -> bool: return sync.get("control_mode") == SYNC_INFERENCE)
	if (mode == INFERENCE or inherits) and brains.all(func(brain: Variant) -> bool: return brain == null):
		found.append("lacks a brain to act on, as the LanistaSync does: `lanista export RUN --godot` writes one.")
	return found


static func _extends(node: Node, names: Array[StringName]) -> bool:
	var script: Script = node.get_script()
	while script != null and script.get_global_name() not in names:
		script = script.get_base_script()
	return script != null


## Whether a script between the node's and the addon's has a function of this name.
static func _overrides(agent: Node, function: String) -> bool:
	var script: Script = agent.get_script()
	while script.get_global_name() not in AGENTS:
		if "func %s(" % function in script.source_code or not script.has_source_code():
			return true
		script = script.get_base_script()
	return false
