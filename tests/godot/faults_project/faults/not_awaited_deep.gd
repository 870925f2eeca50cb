extends Walker


func _ready() -> void:
	reset_requested.connect(begin)


func begin() -> void:
	speed = 0.0
	prepare()


func prepare() -> void:
	self.fall_asleep()  # await would be needed here


func fall_asleep() -> void:
	await get_tree().create_timer(0.5).timeout
	place_body()
