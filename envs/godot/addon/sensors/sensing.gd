extends RefCounted
## What the sensors share.


## The name under which an agent observes a sensor: the node's, in which "2d" is kept for pictures.
static func observation_name(sensor: Node, is_picture := false) -> String:
	var words := str(sensor.name).to_snake_case().replace("2d", "").replace("3d", "").replace("__", "_").trim_suffix("_")
	return words + "_2d" if is_picture else words


## The shapes of the body to which a sensor belongs, so that it does not sense itself.
static func own_body(sensor: Node) -> Array[RID]:
	var at := sensor.get_parent()
	while at != null:
		if at is CollisionObject2D or at is CollisionObject3D:
			return [at.get_rid()]
		at = at.get_parent()
	return []


## The position in a mask of each layer that is set there, by layer: {3: 0, 5: 1} for the layers 3 and 5, from 0.
static func layers_of(mask: int) -> Dictionary:
	var places := {}
	for layer in 32:
		if mask & (1 << layer):
			places[layer] = places.size()
	return places


## The colliders of a cell as numbers: how many there are on each layer.
static func count(hits: Array[Dictionary], places: Dictionary) -> PackedFloat32Array:
	var counts := PackedFloat32Array()
	counts.resize(places.size())
	var seen := {}
	for hit in hits:
		if seen.has(hit["collider_id"]):
			continue  # another shape of the same body
		seen[hit["collider_id"]] = true
		var layers: Variant = hit["collider"].get("collision_layer")
		if layers == null:  # a TileMapLayer: its tiles know
			layers = PhysicsServer2D.body_get_collision_layer(hit["rid"])
		for layer: int in places:
			if layers & (1 << layer):
				counts[places[layer]] += 1.0
	return counts


## What a ray tells: how near the collider is, from 1 to 0 for none, and whether it is in each group.
static func ray(hit: Dictionary, origin: Variant, length: float, groups: Array[StringName]) -> PackedFloat32Array:
	var told := PackedFloat32Array()
	told.resize(1 + groups.size())
	if hit.is_empty():
		return told
	told[0] = clampf(1.0 - origin.distance_to(hit["position"]) / length, 0.0, 1.0)
	for index in groups.size():
		told[1 + index] = float(hit["collider"] is Node and hit["collider"].is_in_group(groups[index]))
	return told


## The counts of cells, which come column by column, as one list or as [layers, rows, columns].
static func arrange(counts: Array[PackedFloat32Array], columns: int, rows: int, layers: int, as_table: bool) -> Array:
	var arranged := []
	if not as_table:
		for cell in counts:
			arranged.append_array(Array(cell))
		return arranged
	for layer in layers:
		var table := []
		for row in rows:
			table.append(range(columns).map(func(column: int) -> float: return counts[column * rows + row][layer]))
		arranged.append(table)
	return arranged
