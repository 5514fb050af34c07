"""Files that processes share: opened with distrust, mapped, locked; and the processes that hold them."""
