# To be sourced: the server's files by HTTP, at 10.71.9.9 in the namespace "srv". Wants $work, its files are those of $work/www.
srv() { ip netns exec srv "$@"; }

start_web()
{
  cat >$work/nginx.conf <<CONF
daemon on;
pid $work/nginx.pid;
error_log $work/nginx.log;
events { }
http { access_log off; client_body_temp_path $work/b; proxy_temp_path $work/p; fastcgi_temp_path $work/f; uwsgi_temp_path $work/u;
       scgi_temp_path $work/s; server { listen 10.71.9.9:80; root $work/www; } }
CONF
  srv nginx -e $work/nginx.log -c $work/nginx.conf
}
stop_web() { srv nginx -e $work/nginx.log -c $work/nginx.conf -s stop; }
