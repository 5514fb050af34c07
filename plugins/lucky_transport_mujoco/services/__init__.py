"""The typed methods of the engine, a file for each of LuckyEngine's services or a part of one."""
