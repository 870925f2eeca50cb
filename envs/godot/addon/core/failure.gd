extends RefCounted
## What ends a session: a mistake of the game or of the trainer, told once, in a sentence.

static var happened := false


## `agent`: whose script is to blame, a node or the path of one; `function`: which of its functions.
static func stop(text: String, agent: Variant = null, function := "") -> void:
	if not happened:
		push_error("Lanista: " + text + place(agent, function))
	happened = true


## File and line of a function of an agent, in parentheses; empty if there is no script, as for an agent that has left.
static func place(agent: Variant, function := "") -> String:
	var node: Node = agent if agent is Node else null
	if agent is NodePath:
		node = Engine.get_main_loop().root.get_node_or_null(agent)
	var script: Script = node.get_script() if node != null else null
	if script == null:
		return ""
	var found := " (%s)" % script.resource_path
	while script != null and not function.is_empty():
		var start := script.source_code.find("func %s(" % function)
		if start >= 0 and not "addons/lanista" in script.resource_path:
			return " (%s:%d)" % [script.resource_path, script.source_code.count("\n", 0, start) + 1]
		script = script.get_base_script()
	return found
