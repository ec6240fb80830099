"""What an operator sees and may do about forks whose outcome is unknown, as pages of the admin."""
