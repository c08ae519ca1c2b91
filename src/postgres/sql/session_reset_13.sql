-- What session_13 set goes back to what the server has. Not search_path: whoever set it could let this session call
-- functions and operators of their own.
RESET lock_timeout;
RESET jit;
RESET max_parallel_workers_per_gather;
RESET work_mem;
