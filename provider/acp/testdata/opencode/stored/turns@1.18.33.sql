CREATE TABLE `session` (
          `id` text PRIMARY KEY,
          `project_id` text NOT NULL,
          `workspace_id` text,
          `parent_id` text,
          `slug` text NOT NULL,
          `directory` text NOT NULL,
          `path` text,
          `title` text NOT NULL,
          `version` text NOT NULL,
          `share_url` text,
          `summary_additions` integer,
          `summary_deletions` integer,
          `summary_files` integer,
          `summary_diffs` text,
          `metadata` text,
          `cost` real DEFAULT 0 NOT NULL,
          `tokens_input` integer DEFAULT 0 NOT NULL,
          `tokens_output` integer DEFAULT 0 NOT NULL,
          `tokens_reasoning` integer DEFAULT 0 NOT NULL,
          `tokens_cache_read` integer DEFAULT 0 NOT NULL,
          `tokens_cache_write` integer DEFAULT 0 NOT NULL,
          `revert` text,
          `permission` text,
          `agent` text,
          `model` text,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `time_compacting` integer,
          `time_archived` integer,
          CONSTRAINT `fk_session_project_id_project_id_fk` FOREIGN KEY (`project_id`) REFERENCES `project`(`id`) ON DELETE CASCADE
        );
INSERT INTO session VALUES ('ses_de077a234ffeLhiL1jY0T0b7qS','global',NULL,NULL,'kind-canyon','/tmp/runnel-fixture-opencode/project','tmp/runnel-fixture-opencode/project','A title','1.18.33',NULL,0,0,0,NULL,NULL,0.0,2000,40,0,0,0,NULL,NULL,'build','{"id":"fake-model","providerID":"fake","variant":"low"}',1795825360331,1795825361285,NULL,NULL);
CREATE TABLE `message` (
          `id` text PRIMARY KEY,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_message_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
INSERT INTO message VALUES ('msg_21f885df6001k7GOOqkDJ5gq0P','ses_de077a234ffeLhiL1jY0T0b7qS',1795825360374,1795825361141,'{"role":"user","time":{"created":1795825360374},"agent":"build","model":{"providerID":"fake","modelID":"fake-model","variant":"low"},"summary":{"diffs":[]}}');
INSERT INTO message VALUES ('msg_21f885e10001fHVpHmlwMK6pLm','ses_de077a234ffeLhiL1jY0T0b7qS',1795825360400,1795825360974,'{"parentID":"msg_21f885df6001k7GOOqkDJ5gq0P","role":"assistant","mode":"build","agent":"build","variant":"low","path":{"cwd":"/tmp/runnel-fixture-opencode/project","root":"/"},"cost":0,"tokens":{"total":1020,"input":1000,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"fake-model","providerID":"fake","time":{"created":1795825360400,"completed":1795825360973},"finish":"stop"}');
INSERT INTO message VALUES ('msg_21f88613d001yFReokUJYkMtHf','ses_de077a234ffeLhiL1jY0T0b7qS',1795825361213,1795825361289,'{"role":"user","time":{"created":1795825361213},"agent":"build","model":{"providerID":"fake","modelID":"fake-model","variant":"low"},"summary":{"diffs":[]}}');
INSERT INTO message VALUES ('msg_21f8861460014NrdevYYwjrj7c','ses_de077a234ffeLhiL1jY0T0b7qS',1795825361222,1795825361280,'{"parentID":"msg_21f88613d001yFReokUJYkMtHf","role":"assistant","mode":"build","agent":"build","variant":"low","path":{"cwd":"/tmp/runnel-fixture-opencode/project","root":"/"},"cost":0,"tokens":{"total":1020,"input":1000,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"fake-model","providerID":"fake","time":{"created":1795825361222,"completed":1795825361279},"finish":"stop"}');
CREATE TABLE `part` (
          `id` text PRIMARY KEY,
          `message_id` text NOT NULL,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_part_message_id_message_id_fk` FOREIGN KEY (`message_id`) REFERENCES `message`(`id`) ON DELETE CASCADE
        );
INSERT INTO part VALUES ('prt_21f885df9001EDRH52RvLq0dym','msg_21f885df6001k7GOOqkDJ5gq0P','ses_de077a234ffeLhiL1jY0T0b7qS',1795825360383,1795825360385,'{"type":"text","text":"go <<play {\"steps\":[{\"text\":\"One.\",\"usage\":{\"input_tokens\":1000,\"output_tokens\":20},\"chunk\":24}]}>>"}');
INSERT INTO part VALUES ('prt_21f88601d001hCYZTyx8P9XmLm','msg_21f885e10001fHVpHmlwMK6pLm','ses_de077a234ffeLhiL1jY0T0b7qS',1795825360925,1795825360931,'{"type":"step-start"}');
INSERT INTO part VALUES ('prt_21f88602a001729N3hwwYu6k2u','msg_21f885e10001fHVpHmlwMK6pLm','ses_de077a234ffeLhiL1jY0T0b7qS',1795825360940,1795825360959,'{"type":"text","text":"One.","time":{"start":1795825360939,"end":1795825360958}}');
INSERT INTO part VALUES ('prt_21f886044001AmaXFR5SdUOXAH','msg_21f885e10001fHVpHmlwMK6pLm','ses_de077a234ffeLhiL1jY0T0b7qS',1795825360965,1795825360967,'{"reason":"stop","type":"step-finish","tokens":{"total":1020,"input":1000,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO part VALUES ('prt_21f88613e001ysHBkxiXivNIcT','msg_21f88613d001yFReokUJYkMtHf','ses_de077a234ffeLhiL1jY0T0b7qS',1795825361216,1795825361217,'{"type":"text","text":"go <<play {\"steps\":[{\"text\":\"The last\\nmessage.\",\"usage\":{\"input_tokens\":1000,\"output_tokens\":20},\"chunk\":24}]}>>"}');
INSERT INTO part VALUES ('prt_21f886172001a4Osw4krMK5NWA','msg_21f8861460014NrdevYYwjrj7c','ses_de077a234ffeLhiL1jY0T0b7qS',1795825361266,1795825361268,'{"type":"step-start"}');
INSERT INTO part VALUES ('prt_21f8861750013AAfoeQdwTpp9Z','msg_21f8861460014NrdevYYwjrj7c','ses_de077a234ffeLhiL1jY0T0b7qS',1795825361269,1795825361272,'{"type":"text","text":"The last\nmessage.","time":{"start":1795825361269,"end":1795825361272}}');
INSERT INTO part VALUES ('prt_21f88617a001sh9LrXExFz42eR','msg_21f8861460014NrdevYYwjrj7c','ses_de077a234ffeLhiL1jY0T0b7qS',1795825361274,1795825361275,'{"reason":"stop","type":"step-finish","tokens":{"total":1020,"input":1000,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
