"""Configurations as users of ML-Agents 0.16 and 0.17 had them."""

FLAT = """
default:
  trainer: ppo
  batch_size: 1024
  beta: 5.0e-3
  buffer_size: 10240
  epsilon: 0.2
  hidden_units: 128
  lambd: 0.95
  learning_rate: 3.0e-4
  learning_rate_schedule: linear
  max_steps: 5.0e5
  memory_size: 128
  normalize: false
  num_epoch: 3
  num_layers: 2
  time_horizon: 64
  sequence_length: 64
  summary_freq: 10000
  use_recurrent: false
  vis_encode_type: simple
  reward_signals:
    extrinsic: {strength: 1.0, gamma: 0.99}
3DBall:
  normalize: true
  batch_size: 64
  buffer_size: 12000
  summary_freq: 12000
  time_horizon: 1000
  lamda: 0.99
  train_interval: 3
  reward_signals:
    extrinsic: {strength: 1.0, gamma: 0.9}
Wall:
  trainer: sac
  batch_size: 128
  use_recurrent: true
  sequence_length: 32
  memory_size: 256
  tau: 0.01
  buffer_init_steps: 1000
  train_interval: 1
  num_epoch: 3
  reward_signals:
    extrinsic: {strength: 1.0, gamma: 0.99}
    curiosity: {strength: 0.02, gamma: 0.99, encoding_size: 128}
  self_play: {window: 10, play_against_current_self_ratio: 0.3, shuffle: true}
"""

CURRICULUM = """
Wall:
  measure: progress
  thresholds: [0.1, 0.3]
  min_lesson_length: 100
  signal_smoothing: true
  parameters:
    big_wall_min_height: [0.0, 4.0, 8.0]
"""

SAMPLERS = """
resampling-interval: 500
mass: {sampler-type: uniform, min_value: 0.5, max_value: 10}
gravity: {sampler-type: gaussian, mean: 7, st_dev: 1}
length: {sampler-type: multirange_uniform, intervals: [[1, 2], [4, 8]]}
"""

PARTED = """
behaviors:
  Wall:
    trainer_type: ppo
    hyperparameters: {batch_size: 128, buffer_size: 2048}
env_settings: {seed: 7}
curriculum:
  Wall:
    measure: reward
    thresholds: [0.5]
    parameters: {height: [1, 2]}
parameter_randomization:
  mass: {sampler_type: uniform, sampler_parameters: {min_value: 0.5, max_value: 10}}
"""
