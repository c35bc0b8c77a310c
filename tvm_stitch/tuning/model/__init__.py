"""What a candidate is predicted to gain over the default: XGBoost over the features of plans."""
