/* An echo server with epoll that drives a shard of timers itself: one thread, no locks, and callbacks
 * that run between events. A connection that is idle for too long is closed, and so is one whose
 * request does not come to its end in time.
 *
 * The program is its own client: `echo [CONNECTIONS]` opens as many (3000), of which most talk, some
 * are silent, and some stop in the middle of a request. It fails if a timer was early, if a connection
 * was closed for the wrong reason, or if an answer was wrong. */
#define _POSIX_C_SOURCE 200809L

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tickless.h>

enum { REQUEST = 8, ROUNDS = 20, EVENTS = 256 };

#define MS UINT64_C(1000000)
#define IDLE_LIMIT (1000 * MS)
#define REQUEST_LIMIT (500 * MS)

#define MUST(condition)                                                                        \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "echo: line %d: %s (%s; %s)\n", __LINE__, #condition,               \
                    strerror(errno), tickless_last_error());                                   \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

/* === The server === */

struct server {
    tickless_engine *engine;
    int epoll, listener;
    int is_over;
    long open, accepted, hung_up, idle, unfinished, requests, early;
};

struct connection {
    struct server *server;
    int fd, received;
    char request[REQUEST];
    tickless_timer idle, unfinished;
    /* Whether the second timer runs. */
    int is_unfinished;
    uint64_t active_ns, begun_ns;
};

static uint64_t now_ns(const struct server *server) {
    uint64_t now;
    MUST(tickless_now_ns(server->engine, &now) == TICKLESS_OK);
    return now;
}

static void end_request_timer(struct connection *connection) {
    if (connection->is_unfinished) {
        tickless_timer_cancel(&connection->unfinished);
        connection->is_unfinished = 0;
    }
}

static void close_connection(struct connection *connection) {
    /* From the callback of a timer, its cancel comes too late, and ends the timer all the same. */
    tickless_timer_cancel(&connection->idle);
    end_request_timer(connection);
    close(connection->fd);
    connection->server->open--;
    free(connection);
}

static void on_idle(void *user_data) {
    struct connection *connection = user_data;
    struct server *server = connection->server;
    server->early += now_ns(server) < connection->active_ns + IDLE_LIMIT;
    server->idle++;
    close_connection(connection);
}

static void on_unfinished(void *user_data) {
    struct connection *connection = user_data;
    struct server *server = connection->server;
    server->early += now_ns(server) < connection->begun_ns + REQUEST_LIMIT;
    server->unfinished++;
    close_connection(connection);
}

static void accept_all(struct server *server) {
    int fd;
    while ((fd = accept(server->listener, NULL, NULL)) >= 0) {
        struct connection *connection = calloc(1, sizeof *connection);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        MUST(connection != NULL && fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
        connection->server = server;
        connection->fd = fd;
        connection->active_ns = now_ns(server);
        MUST(tickless_schedule(server->engine, IDLE_LIMIT, on_idle, connection, NULL,
                               &connection->idle) == TICKLESS_OK);
        MUST(epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) == 0);
        server->open++;
        server->accepted++;
    }
    MUST(errno == EAGAIN || errno == EWOULDBLOCK || errno == ECONNABORTED);
}

static void serve(struct connection *connection) {
    struct server *server = connection->server;
    for (;;) {
        int room = REQUEST - connection->received;
        ssize_t n = read(connection->fd, connection->request + connection->received,
                         (size_t)room);
        if (n <= 0) {
            if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
                return;
            }
            server->hung_up++;
            close_connection(connection);
            return;
        }
        connection->active_ns = now_ns(server);
        /* It is pending: otherwise its callback would have closed the connection. */
        MUST(tickless_timer_reset(&connection->idle, IDLE_LIMIT) == TICKLESS_OK);
        connection->received += (int)n;
        if (connection->received == REQUEST) {
            end_request_timer(connection);
            connection->received = 0;
            server->requests++;
            if (send(connection->fd, connection->request, REQUEST, MSG_NOSIGNAL) != REQUEST) {
                server->hung_up++;
                close_connection(connection);
                return;
            }
        } else if (!connection->is_unfinished) {
            connection->begun_ns = connection->active_ns;
            MUST(tickless_schedule(server->engine, REQUEST_LIMIT, on_unfinished, connection, NULL,
                                   &connection->unfinished) == TICKLESS_OK);
            connection->is_unfinished = 1;
        }
    }
}

static void run_server(struct server *server) {
    struct epoll_event events[EVENTS];
    struct epoll_event due = {.events = EPOLLIN, .data.ptr = server->engine};
    struct epoll_event incoming = {.events = EPOLLIN, .data.ptr = server};
    int timers = tickless_pollable_fd(server->engine, 0);
    MUST(timers >= 0 && (server->epoll = epoll_create1(EPOLL_CLOEXEC)) >= 0);
    MUST(epoll_ctl(server->epoll, EPOLL_CTL_ADD, timers, &due) == 0);
    MUST(epoll_ctl(server->epoll, EPOLL_CTL_ADD, server->listener, &incoming) == 0);
    MUST(tickless_bind_thread(server->engine, 0) == TICKLESS_OK);
    while (!server->is_over || server->open > 0) {
        int i, is_due = 0, n = epoll_wait(server->epoll, events, EVENTS, -1);
        MUST(n >= 0 || errno == EINTR);
        for (i = 0; i < n; i++) {
            if (events[i].data.ptr == server) {
                accept_all(server);
            } else if (events[i].data.ptr == server->engine) {
                is_due = 1;
            } else {
                serve(events[i].data.ptr);
            }
        }
        if (is_due) {
            /* Callbacks run here, and may free connections: no event is in hand now. */
            MUST(tickless_turn(server->engine, 0, 0, NULL) == TICKLESS_OK);
        }
    }
    close(server->epoll);
}

/* === The clients === */

struct client {
    int fd, sent, received, rounds;
    enum { TALKS, IS_SILENT, STOPS } kind;
    char answer[REQUEST];
};

struct clients {
    struct server *server;
    struct sockaddr_in address;
    long n, done, cut;
};

static void send_bytes(struct client *client, int n) {
    char request[REQUEST];
    snprintf(request, sizeof request, "%07d", client->rounds);
    if (send(client->fd, request + client->sent, (size_t)n, MSG_NOSIGNAL) == n) {
        client->sent += n;
    }
}

/* Begins a request, in two parts now and then. */
static void begin_round(struct client *client) {
    client->sent = client->received = 0;
    send_bytes(client, client->rounds % 2 ? REQUEST : REQUEST / 2);
    if (client->sent < REQUEST && client->kind == TALKS) {
        send_bytes(client, REQUEST - client->sent);
    }
}

/* Returns whether the client goes on. */
static int answer(struct clients *clients, struct client *client) {
    ssize_t n = read(client->fd, client->answer + client->received,
                     (size_t)(REQUEST - client->received));
    char expected[REQUEST];
    if (n <= 0) {
        /* The server has closed: right for all that did not talk. */
        clients->cut += client->kind == TALKS;
        return 0;
    }
    client->received += (int)n;
    if (client->received < REQUEST) {
        return 1;
    }
    snprintf(expected, sizeof expected, "%07d", client->rounds);
    MUST(memcmp(expected, client->answer, REQUEST) == 0);
    if (++client->rounds == ROUNDS) {
        clients->done++;
        return 0;
    }
    begin_round(client);
    return 1;
}

static void set_over(void *server) {
    ((struct server *)server)->is_over = 1;
}

static void *run_clients(void *user_data) {
    struct clients *clients = user_data;
    struct epoll_event events[EVENTS];
    long i, open = 0;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct client *all = calloc((size_t)clients->n, sizeof *all);
    MUST(epoll >= 0 && all != NULL);
    for (i = 0; i < clients->n; i++) {
        struct client *client = &all[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
        client->kind = i % 10 == 0 ? IS_SILENT : i % 10 == 1 ? STOPS : TALKS;
        client->fd = socket(AF_INET, SOCK_STREAM, 0);
        MUST(client->fd >= 0);
        MUST(connect(client->fd, (struct sockaddr *)&clients->address, sizeof clients->address)
             == 0);
        MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, client->fd, &event) == 0);
        open++;
        if (client->kind != IS_SILENT) {
            begin_round(client);
        }
    }
    while (open > 0) {
        int n = epoll_wait(epoll, events, EVENTS, -1);
        MUST(n >= 0 || errno == EINTR);
        for (i = 0; i < n; i++) {
            struct client *client = events[i].data.ptr;
            if (!answer(clients, client)) {
                close(client->fd);
                open--;
            }
        }
    }
    close(epoll);
    free(all);
    /* Only the engine's descriptor tells the server's loop of this. */
    MUST(tickless_bind_thread(clients->server->engine, 0) == TICKLESS_OK);
    MUST(tickless_schedule(clients->server->engine, 0, set_over, clients->server, NULL, NULL)
         == TICKLESS_OK);
    return NULL;
}

int main(int argc, char **argv) {
    tickless_options options = {.size = sizeof options};
    struct server server = {0};
    struct clients clients = {.server = &server, .n = argc > 1 ? atol(argv[1]) : 3000};
    struct rlimit limit;
    tickless_stats_info stats = {.size = sizeof stats};
    socklen_t size = sizeof clients.address;
    pthread_t thread;
    long files, silent, stopped;

    /* Two descriptors per connection, and some more. */
    MUST(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    MUST(setrlimit(RLIMIT_NOFILE, &limit) == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    files = limit.rlim_cur > 1000000 ? 1000000 : (long)limit.rlim_cur;
    if (clients.n > (files - 64) / 2) {
        clients.n = (files - 64) / 2;
    }
    silent = (clients.n + 9) / 10;
    stopped = (clients.n + 8) / 10;

    options.shards = 1;
    options.driver = TICKLESS_DRIVER_CALLER;
    MUST(tickless_engine_new(&options, &server.engine) == TICKLESS_OK);
    clients.address.sin_family = AF_INET;
    clients.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server.listener = socket(AF_INET, SOCK_STREAM, 0);
    MUST(server.listener >= 0 && fcntl(server.listener, F_SETFL, O_NONBLOCK) == 0);
    MUST(bind(server.listener, (struct sockaddr *)&clients.address, size) == 0);
    MUST(listen(server.listener, 4096) == 0);
    MUST(getsockname(server.listener, (struct sockaddr *)&clients.address, &size) == 0);

    MUST(pthread_create(&thread, NULL, run_clients, &clients) == 0);
    run_server(&server);
    MUST(pthread_join(thread, NULL) == 0);
    close(server.listener);

    MUST(tickless_stats(server.engine, &stats) == TICKLESS_OK);
    printf("%ld connections: %ld hung up, %ld were idle, %ld sent half a request\n",
           server.accepted, server.hung_up, server.idle, server.unfinished);
    printf("%ld requests; timers: %llu scheduled, %llu reset, %llu cancelled, %llu fired\n",
           server.requests, (unsigned long long)stats.scheduled, (unsigned long long)stats.reset,
           (unsigned long long)stats.cancelled, (unsigned long long)stats.fired);
    MUST(server.early == 0);
    MUST(server.accepted == clients.n);
    MUST(server.hung_up + server.idle + server.unfinished == clients.n);
    MUST(clients.done + clients.cut == clients.n - silent - stopped);
    /* Whoever talks is cut off only if the machine stood still for longer than the limits. */
    MUST(server.idle + server.unfinished == silent + stopped + clients.cut);
    MUST(server.requests >= clients.done * ROUNDS);
    MUST(stats.pending == 0 && stats.scheduled == stats.cancelled + stats.fired);
    MUST(tickless_engine_free(server.engine) == TICKLESS_OK);
    printf("echo: all is well\n");
    return 0;
}
