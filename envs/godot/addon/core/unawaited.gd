extends RefCounted
## Names, in the source of what a signal calls, a function that awaits and is called without `await`. It goes on
## after its caller has returned, so that nobody can know when the body is placed.

static var _seen := {}


## Warn, once for each script. `asked`: the signal to which the handler is connected.
static func warn(handler: Callable, asked: StringName) -> void:
	var object := handler.get_object()
	var script: Script = object.get_script() if object != null else null
	if script == null or not script.has_source_code() or _seen.has(script):
		return
	_seen[script] = true
	var found := _find(script.source_code.split("\n"), str(handler.get_method()), asked)
	if not found.is_empty():
		var place := "%s:%d" % [script.resource_path, found["line"]]
		var text := "Lanista: %s calls %s() without `await` for %s, and %s() awaits: "
		var remedy := "episodes begin before bodies are placed. Write `await %s()` there, or connect %s itself"
		push_warning((text + remedy) % [place, found["name"], asked, found["name"], found["name"], found["name"]])


## The line of the call, from 1, and the name of what is called; empty if there is none.
static func _find(lines: PackedStringArray, method: String, asked: StringName) -> Dictionary:
	var functions := _functions(lines)
	var ranges := [functions[method]] if functions.has(method) else _connected(lines, asked)
	var known := {method: true}
	while not ranges.is_empty():
		var at: Vector2i = ranges.pop_back()
		for index in range(at.x, at.y):
			for name: String in functions:
				if known.has(name) or not _calls(lines[index], name):
					continue
				if _awaits(lines, functions[name]):
					return {"line": index + 1, "name": name}
				known[name] = true
				ranges.append(functions[name])
	return {}


## The lines of each function's body, by its name.
static func _functions(lines: PackedStringArray) -> Dictionary:
	var functions := {}
	var header := RegEx.create_from_string("^(?:static )?func (\\w+)")
	for index in lines.size():
		var found := header.search(lines[index])
		if found != null:
			functions[found.get_string(1)] = Vector2i(index + 1, _end_of_block(lines, index))
	return functions


## The lines on which lambdas are connected: the engine does not tell where a lambda stands.
static func _connected(lines: PackedStringArray, asked: StringName) -> Array:
	var ranges := []
	for index in lines.size():
		if "%s.connect(func" % asked in lines[index]:
			ranges.append(Vector2i(index, _end_of_block(lines, index)))
	return ranges


## The first line after `start` that is not further to the right.
static func _end_of_block(lines: PackedStringArray, start: int) -> int:
	for index in range(start + 1, lines.size()):
		if not lines[index].strip_edges().is_empty() and _indent(lines[index]) <= _indent(lines[start]):
			return index
	return lines.size()


static func _indent(line: String) -> int:
	return line.length() - line.lstrip("\t ").length()


static func _calls(line: String, name: String) -> bool:
	var code := line.get_slice("#", 0)
	var found := RegEx.create_from_string("(?<![\\w.])(?:self\\.)?%s\\(" % name).search(code)
	return found != null and not code.left(found.get_start()).strip_edges(false).ends_with("await") and not "func " + name in code


static func _awaits(lines: PackedStringArray, body: Vector2i) -> bool:
	var word := RegEx.create_from_string("\\bawait\\b")
	return range(body.x, body.y).any(func(index: int) -> bool: return word.search(lines[index].get_slice("#", 0)) != null)
