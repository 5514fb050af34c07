"""The methods that commands know: LuckyEngine's, and those of services of a team's own."""
