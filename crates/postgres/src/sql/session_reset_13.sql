-- What session_13 and session_no_limits_13 set goes back to what the server has, but for what came later than 13. Not
-- search_path: whoever set it could let this session call functions and operators of their own. configured_path_13 asks for it.
RESET lock_timeout;
RESET default_transaction_isolation;
RESET jit;
RESET max_parallel_workers_per_gather;
RESET work_mem;
RESET default_transaction_read_only;
RESET idle_in_transaction_session_timeout;
RESET statement_timeout;
