-- Undoes session_13 and session_no_limits_13, except settings newer than 13. Keeps search_path empty, because another
-- path could inject functions and operators. configured_path_13 reads the original.
RESET lock_timeout;
RESET default_transaction_isolation;
RESET jit;
RESET max_parallel_workers_per_gather;
RESET work_mem;
RESET default_transaction_read_only;
RESET idle_in_transaction_session_timeout;
RESET statement_timeout;
