//! Files and speakers: WAV out, pipes, playback, sample formats and rates.
