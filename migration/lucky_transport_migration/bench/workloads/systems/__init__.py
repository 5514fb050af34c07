"""`bench --suite systems`: the systems that this project serves beside LuckyEngine, each against what limits it."""
