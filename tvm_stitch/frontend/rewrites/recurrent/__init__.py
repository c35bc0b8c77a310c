"""LSTM, GRU and RNN, step by step."""
