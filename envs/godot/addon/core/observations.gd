extends RefCounted
## What an agent observes, as the columns and the JSON of a message.

const Failure := preload("failure.gd")

const FORMATS := {1: Image.FORMAT_L8, 3: Image.FORMAT_RGB8, 4: Image.FORMAT_RGBA8}


## A space for each observation, where the game declares none: sensors know theirs, the rest are lists of numbers.
static func default_spaces(agent: Node, observations: Dictionary) -> Dictionary:
	var spaces := {}
	var sensors := sensors_of(agent)
	for name: String in observations:
		if sensors.has(name):
			spaces[name] = sensors[name].get_observation_space()
			continue
		var numbers := to_numbers(observations[name])
		if numbers.is_empty():
			var place := "'%s' of get_obs() of %s" % [name, agent.get_path()]
			Failure.stop("%s is no list of numbers (%s): declare it in get_obs_space()" % [place, _found(observations[name])], agent, "get_obs")
		spaces[name] = {"size": [numbers.size()], "space": "box"}
	return spaces


## The sensors below an agent by the names of their observations.
static func sensors_of(agent: Node) -> Dictionary:
	var sensors := {}
	for child in agent.find_children("*", "", true, false):
		if child.has_method("get_observation_space"):
			var name: String = child.observation_name()
			if sensors.has(name):
				Failure.stop("%s and %s are both observed as '%s': rename one" % [sensors[name].get_path(), child.get_path(), name])
			sensors[name] = child
	return sensors


## A picture is an observation with "2d" in its name and [channels, height, width] as its size.
static func is_picture(name: String, size: Array) -> bool:
	return "2d" in name and size.size() == 3


## The numbers of a value, row by row; empty if it has none.
static func to_numbers(value: Variant) -> PackedFloat32Array:
	match typeof(value):
		TYPE_PACKED_FLOAT32_ARRAY:
			return value
		TYPE_ARRAY:
			if value.is_empty() or typeof(value[0]) != TYPE_ARRAY:
				return PackedFloat32Array(value)
			var rows := PackedFloat32Array()
			for row: Variant in value:
				rows.append_array(to_numbers(row))
			return rows
		TYPE_PACKED_FLOAT64_ARRAY, TYPE_PACKED_INT32_ARRAY, TYPE_PACKED_INT64_ARRAY:
			return PackedFloat32Array(Array(value))
		TYPE_FLOAT, TYPE_INT, TYPE_BOOL:
			return PackedFloat32Array([value])
	return PackedFloat32Array()


## The first entry of a list, or of lists in it, that is no number, in words; empty if all are.
static func stranger_in(value: Variant) -> String:
	if value is Array:
		for entry: Variant in value:
			var found := stranger_in(entry)
			if not found.is_empty():
				return found
	elif typeof(value) in [TYPE_NIL, TYPE_STRING, TYPE_STRING_NAME] or to_numbers(value).is_empty():
		return "a %s in the list (%s)" % [type_string(typeof(value)), value]
	return ""


## The bytes of a picture, height x width x channels; empty if the value is no such picture. Engines give pictures an
## alpha channel that no one declared: it is left out.
static func to_pixels(value: Variant, size: Array) -> PackedByteArray:
	var channels := int(size[0])
	var area := int(size[1]) * int(size[2])
	if value is Image:
		if value.get_width() != int(size[2]) or value.get_height() != int(size[1]):
			return PackedByteArray()
		if value.get_format() != FORMATS[channels]:
			value = value.duplicate()
			value.convert(FORMATS[channels])
		return value.get_data()
	var bytes := PackedByteArray()
	if value is PackedByteArray:
		bytes = value
	elif value is String:
		bytes = value.hex_decode()
	if channels == 3 and bytes.size() == 4 * area:
		var image := Image.create_from_data(int(size[2]), int(size[1]), false, Image.FORMAT_RGBA8, bytes)
		image.convert(Image.FORMAT_RGB8)
		return image.get_data()
	return bytes if bytes.size() == channels * area else PackedByteArray()


## Stop the session because of what `get_obs` of an agent, a node or a path, has given under a name.
static func refuse(agent: Variant, name: String, observations: Dictionary, expected: String) -> void:
	var found := "nothing: is there a script error above?"
	if observations.has(name):
		found = stranger_in(observations[name]) if observations[name] is Array else ""
		found = _found(observations[name]) if found.is_empty() else found
	var path: Variant = agent.get_path() if agent is Node else agent
	Failure.stop("get_obs() of %s gives under '%s' %s. Expected: %s" % [path, name, found, expected], agent, "get_obs")


static func _found(value: Variant) -> String:
	match typeof(value):
		TYPE_NIL:
			return "null: under --headless no camera has a picture, a display is needed (Xvfb on a server)"
		TYPE_ARRAY, TYPE_PACKED_FLOAT32_ARRAY, TYPE_PACKED_FLOAT64_ARRAY:
			return "%d numbers" % to_numbers(value).size()
		TYPE_PACKED_BYTE_ARRAY:
			return "%d bytes" % value.size()
		TYPE_STRING:
			return "a text of %d letters" % value.length()
		TYPE_OBJECT:
			return "a picture of %d x %d" % [value.get_width(), value.get_height()] if value is Image else "an object"
	return "%s (%s)" % [type_string(typeof(value)), value]
